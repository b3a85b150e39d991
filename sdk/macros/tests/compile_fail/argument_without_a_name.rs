struct Queue(Vec<u8>);

impl Queue {
    #[tracezero::trace(args(self.0.len()))]
    fn expression(&self) {}

    #[tracezero::trace(args(?self))]
    fn receiver(&self) {}

    #[tracezero::trace(args("literal"))]
    fn only_a_name(&self) {}

    #[tracezero::trace(args(count =))]
    fn no_value(&self) {}
}

fn main() {
    let queue = Queue(Vec::new());
    queue.expression();
    queue.receiver();
    queue.only_a_name();
    queue.no_value();
}
