use tracezero::span;

fn main() {
    let span = span!("io", "read");
    std::thread::spawn(move || drop(span));
}
