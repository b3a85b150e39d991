# Sourced by the benches of daemons. Builds the producer in C++ into the folder in `target`, and exports its path in
# CPP_PRODUCER, if PERFETTO_SDK names the folder of the C++ library.
if [ -n "${PERFETTO_SDK:-}" ]; then
    mkdir -p "$target"
    export CPP_PRODUCER=$target/cpp_producer
    # The library takes minutes.
    if [ ! -e "$target/perfetto.o" ]; then
        c++ -std=c++17 -O2 -c "$PERFETTO_SDK/perfetto.cc" -o "$target/perfetto.o"
    fi
    c++ -std=c++17 -O2 -I"$PERFETTO_SDK" "$here/src/bin/daemon/producer.cc" "$target/perfetto.o" \
        -pthread -o "$CPP_PRODUCER"
else
    echo "The C++ rows are left out: they need PERFETTO_SDK." >&2
fi
