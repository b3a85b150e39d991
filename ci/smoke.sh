#!/usr/bin/env bash
# Every example runs to its end and leaves a trace that the judge accepts, and in which its report and
# the command `tracezero` count what the judge does; and every bench runs once, unmeasured.
set -euo pipefail
cd "$(dirname "$0")/.."

# Examples write their traces into the folder they run in.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Of the same packages as `main-job.sh`: with another choice the SDK would be built once more.
cargo build --locked --release --examples
binaries=$(realpath "${CARGO_TARGET_DIR:-target}")/release/examples
for source in examples/*.rs examples/*/main.rs; do
    name=${source#examples/}
    name=${name%/main.rs}
    name=${name%.rs}
    echo "--- example $name"
    (cd "$folder" && "$binaries/$name") | tee "$folder/$name.out"
done

echo "--- traces"
# As it is built for the tests: another choice of packages would build the published schema once more.
cargo test --locked --workspace --test soak --no-run
# As it is built for `tool.sh`: else it would be built twice.
cargo build --locked --release --package tracezero-cli --bin tracezero --example many_spans
tool=$(realpath "${CARGO_TARGET_DIR:-target}")/release/tracezero
judge=$(realpath "${CARGO_TARGET_DIR:-target}")/debug/judge
extensions=(--config 2000 examples/protos/memory.proto memory.SamplerConfig --extensions sdk/schema/protos/tracezero/sequences.proto)
for schema in http index_tree memory render; do
    extensions+=(--extensions "examples/protos/$schema.proto")
done
for trace in "$folder"/*.pftrace; do
    name=$(basename "$trace" .pftrace)
    options=(--tool "$tool")
    case $name in
        statistics) options+=(--after-loss) ;;  # its ring has lapped
        flight-*) options+=(--open-spans) ;;    # they end while requests go on
        long_trace) options+=(--open-spans) ;;  # it ends by itself while spans are open
    esac
    case $name in
        flight-* | exit | shutdown | trigger_snapshot) ;; # nobody has asked for a report
        *) options+=(--report "$folder/$name.out") ;;
    esac
    "$judge" "${extensions[@]}" "${options[@]}" "$trace"
done

echo "--- benches"
benches=()
for source in benches/*.rs; do
    name=$(basename "$source" .rs)
    [ "$name" = build ] || benches+=(--bench "$name")
done
cargo bench --locked "${benches[@]}" -- --test
