#!/usr/bin/env bash
# Runs every example, and checks that the judge accepts its trace and that its report and the
# command `tracezero` count the same as the judge. Exports the traces as tables, and checks that foreign
# SQL engines read in them what the judge finds in the traces. Runs every benchmark once, unmeasured.
set -euo pipefail
cd "$(dirname "$0")/.."

# Examples write their traces into the current folder.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Selects the packages of `main-job.sh`: another selection would build the SDK once more.
cargo build --locked --release --examples
binaries=$(realpath "${CARGO_TARGET_DIR:-target}")/release/examples
for source in examples/*.rs examples/*/main.rs; do
    name=${source#examples/}
    name=${name%/main.rs}
    name=${name%.rs}
    echo "--- example $name"
    arguments=()
    case $name in
        system_producer) arguments=(1) ;; # seconds; there is no daemon
    esac
    (cd "$folder" && "$binaries/$name" "${arguments[@]}") | tee "$folder/$name.out"
done

echo "--- record"
cargo build --locked --release --package tracezero-cli --bin tracezero
"$(realpath "${CARGO_TARGET_DIR:-target}")/release/tracezero" record -o "$folder/workers.pftrace" \
    -- "$binaries/workers" 2>"$folder/workers.out"
cat "$folder/workers.out"
grep -q "^82 events of 3 processes, .*, 0 lost: " "$folder/workers.out"

echo "--- traces"
# Builds as the tests do: another selection of packages would build the published schema once more.
cargo test --locked --workspace --test soak --no-run
# Builds as `tool.sh` does, so that it is built once.
cargo build --locked --release --package tracezero-cli --bin tracezero --example many_spans
tool=$(realpath "${CARGO_TARGET_DIR:-target}")/release/tracezero
judge=$(realpath "${CARGO_TARGET_DIR:-target}")/debug/judge
extensions=(--config 2000 examples/protos/memory.proto memory.SamplerConfig --extensions sdk/schema/protos/tracezero/sequences.proto)
for schema in connections http index_tree memory render; do
    extensions+=(--extensions "examples/protos/$schema.proto")
done
for trace in "$folder"/*.pftrace; do
    name=$(basename "$trace" .pftrace)
    options=(--tool "$tool" --tables "$folder/$name.json")
    case $name in
        statistics | connections) options+=(--after-loss) ;; # their rings have lapped
        flight-*) options+=(--open-spans) ;;    # they end while spans are open
        long_trace) options+=(--open-spans) ;;  # it ends by itself while spans are open
    esac
    case $name in
        # These print no report, or one of several traces.
        flight-* | exit | front | shutdown | stock | trigger_snapshot | workers) ;;
        *) options+=(--report "$folder/$name.out") ;;
    esac
    "$judge" "${extensions[@]}" "${options[@]}" "$trace"
done

echo "--- lake"
"$tool" export parquet "$folder"/*.pftrace -o "$folder/lake"
for engine in duckdb datafusion; do
    PYTHONPATH=target/engines python3 tests/judge/engines/compare.py "$engine" "$folder/lake" "$folder"/*.json
done

echo "--- a thousand traces"
mkdir -p "$folder/page/traces"
mv "$folder"/*.pftrace "$folder/page/traces"
PATH=$(dirname "$tool"):$PATH PYTHONPATH=$PWD/target/engines \
    ci/run_page.sh sdk/lake/src/a_thousand_traces.md "$folder/page" >"$folder/page.out"

echo "--- benches"
benches=()
for source in benches/*.rs; do
    name=$(basename "$source" .rs)
    [ "$name" = build ] || benches+=(--bench "$name")
done
cargo bench --locked "${benches[@]}" -- --test
