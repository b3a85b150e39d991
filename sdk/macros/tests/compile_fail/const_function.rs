#[tracezero::trace]
const fn limit() -> usize {
    7
}

fn main() {
    limit();
}
