#[tracezero::trace("io", category = "net")]
fn two_categories() {}

#[tracezero::trace(args(), name = "a", args())]
fn two_lists() {}

fn main() {
    two_categories();
    two_lists();
}
