#[tracezero::trace]
struct Store;

#[tracezero::trace]
impl Store {
    fn read(&self) {}
}

fn main() {
    Store.read();
}
