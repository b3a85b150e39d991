use protozero::{HeapBuffered, Message};

fn main() {
    let mut buffer = HeapBuffered::<Message>::new();
    let mut message = buffer.message();
    let mut outer = message.begin_nested::<1>();
    let mut inner = outer.begin_nested::<1>();
    message.append_uint32::<2>(7);
    inner.append_uint32::<2>(8);
}
