use protozero::{HeapBuffered, Message};

fn main() {
    let mut buffer = HeapBuffered::<Message>::new();
    let mut message = buffer.message();
    drop(buffer);
    message.append_uint32::<1>(7);
}
