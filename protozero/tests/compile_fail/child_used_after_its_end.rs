use protozero::{HeapBuffered, Message};

fn main() {
    let mut buffer = HeapBuffered::<Message>::new();
    let mut message = buffer.message();
    let mut child = message.begin_nested::<1>();
    drop(child);
    child.append_uint32::<2>(7);
}
