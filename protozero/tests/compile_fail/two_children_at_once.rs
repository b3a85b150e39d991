use protozero::{HeapBuffered, Message};

fn main() {
    let mut buffer = HeapBuffered::<Message>::new();
    let mut message = buffer.message();
    let mut first = message.begin_nested::<1>();
    let mut second = message.begin_nested::<1>();
    first.append_uint32::<2>(7);
    second.append_uint32::<2>(8);
}
