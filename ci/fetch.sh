#!/usr/bin/env bash
# Downloads the packages that the lock files name, and installs the tools of the other scripts:
# cargo-fuzz, an older compiler, valgrind for its Callgrind, chromium for the page of
# `tracezero view`, Perfetto's daemon, and SQL engines for Python. All other scripts work offline afterwards.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fetch --locked
cargo fetch --locked --manifest-path fuzz/Cargo.toml
cargo fetch --locked --manifest-path tests/off/Cargo.toml

if ! command -v cargo-fuzz >/dev/null; then
    cargo install --locked cargo-fuzz
fi
# The Debian packages have the names of the programs.
for program in valgrind chromium; do
    if command -v "$program" >/dev/null; then
        continue
    fi
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "$program is missing: run 'apt-get install $program'" >&2
        exit 1
    fi
    apt-get update
    apt-get install --yes --no-install-recommends "$program"
done

# Unpacks the oldest compiler that libraries may build with, from Debian 13, into a folder. Installs
# nothing on the machine.
old=$PWD/target/rustc-1.85
if [ ! -x "$old/rustc" ]; then
    if ! command -v apt-get >/dev/null || [ "$(dpkg --print-architecture)" != amd64 ]; then
        echo "Rust 1.85 is missing: put a program or link of that name at $old/rustc" >&2
        exit 1
    fi
    mkdir -p "$old"/lists/partial "$old"/cache/archives/partial "$old/packages"
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -n 1)
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$old/sources.list"
    apt=(apt-get --quiet --quiet -o Dir::Etc::sourcelist="$old/sources.list" -o Dir::Etc::sourceparts=-
        -o Dir::State::lists="$old/lists" -o Dir::Cache="$old/cache" -o APT::Architecture=amd64
        -o APT::Architectures=amd64 -o Acquire::Languages=none -o APT::Sandbox::User=root)
    "${apt[@]}" update
    # The compiler and its libraries, since those of the machine may be older.
    (cd "$old/packages" && "${apt[@]}" download rustc libstd-rust-1.85 libstd-rust-dev libllvm19 libbsd0 libc6 libedit2 \
        libffi8 libgcc-s1 libicu76 liblzma5 libmd0 libstdc++6 libtinfo6 libxml2 libz3-4 libzstd1 zlib1g)
    for package in "$old"/packages/*.deb; do
        dpkg-deb --extract "$package" "$old/root"
    done
    rm -r "$old/packages" "$old/lists" "$old/cache"
    libraries=$old/root/usr/lib/x86_64-linux-gnu
    cat >"$old/rustc" <<EOF
#!/bin/sh
exec $libraries/ld-linux-x86-64.so.2 --library-path $libraries $old/root/usr/bin/rustc --sysroot $old/root/usr "\$@"
EOF
    chmod +x "$old/rustc"
fi

# The real daemon, which tests record with. A folder of an earlier version may lack a program.
if [ ! -x target/perfetto/bin/traced_probes ]; then
    rm -rf target/perfetto
    ci/fetch_perfetto.sh target/perfetto
fi

# SQL engines, which read the tables that `tracezero export` writes.
engines=$PWD/target/engines
if ! cmp --quiet tests/judge/engines/requirements.txt "$engines/requirements.txt"; then
    if ! python3 -m pip --version >/dev/null 2>&1; then
        if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
            echo "pip is missing: run 'apt-get install python3-pip'" >&2
            exit 1
        fi
        apt-get update
        apt-get install --yes --no-install-recommends python3 python3-pip
    fi
    rm -rf "$engines"
    python3 -m pip install --quiet --no-deps --target "$engines" --requirement tests/judge/engines/requirements.txt
    cp tests/judge/engines/requirements.txt "$engines"
fi
