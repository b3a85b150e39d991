#!/usr/bin/env bash
# usage: ci/fetch_perfetto.sh FOLDER
#
# Unpacks Debian's build of Perfetto's programs (amd64) into a folder, for tests with the real daemon:
# FOLDER/bin/{traced,traced_probes,perfetto}. Installs nothing on the machine.
set -euo pipefail
mkdir -p "$1"
folder=$(cd "$1" && pwd)

if ! command -v apt-get >/dev/null || [ "$(dpkg --print-architecture)" != amd64 ]; then
    echo "Perfetto's programs are missing: put traced, traced_probes and perfetto, or links to them, into $folder/bin" >&2
    exit 1
fi
mkdir -p "$folder"/lists/partial "$folder"/cache/archives/partial "$folder"/{packages,bin}
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -n 1)
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main" >"$folder/sources.list"
apt=(apt-get --quiet --quiet -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=-
    -o Dir::State::lists="$folder/lists" -o Dir::Cache="$folder/cache" -o APT::Architecture=amd64
    -o APT::Architectures=amd64 -o Acquire::Languages=none -o APT::Sandbox::User=root)
"${apt[@]}" update
# The programs want newer libraries than the machine may have.
(cd "$folder/packages" && "${apt[@]}" download perfetto libc6 libstdc++6 zlib1g libgcc-s1)
for package in "$folder"/packages/*.deb; do
    dpkg-deb --extract "$package" "$folder/root"
done
rm -r "$folder/packages" "$folder/lists" "$folder/cache"
libraries=$folder/root/usr/lib/x86_64-linux-gnu
for program in usr/sbin/traced usr/sbin/traced_probes usr/bin/perfetto; do
    script=$folder/bin/${program##*/}
    cat >"$script" <<SCRIPT
#!/bin/sh
exec $libraries/ld-linux-x86-64.so.2 --library-path $libraries:$folder/root/usr/lib/perfetto $folder/root/$program "\$@"
SCRIPT
    chmod +x "$script"
done
"$folder/bin/perfetto" --version
