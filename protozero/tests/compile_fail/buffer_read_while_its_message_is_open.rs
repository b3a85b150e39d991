use protozero::{HeapBuffered, Message};

fn main() {
    let mut buffer = HeapBuffered::<Message>::new();
    let mut message = buffer.message();
    let bytes = buffer.to_vec();
    message.append_uint32::<1>(7);
    drop(bytes);
}
