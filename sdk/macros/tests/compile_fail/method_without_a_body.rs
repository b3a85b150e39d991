trait Store {
    #[tracezero::trace]
    fn read(&self, path: &str) -> usize;
}

impl Store for () {
    fn read(&self, path: &str) -> usize {
        path.len()
    }
}

fn main() {
    ().read("a");
}
