use protozero::{HeapBuffered, Message};

fn main() {
    let mut buffer = HeapBuffered::<Message>::new();
    let mut message = buffer.message();
    let child = message.begin_nested::<1>();
    message.append_raw(&[8, 7]);
    message.append_scattered_bytes::<2>(&[&[1], &[2]]);
    drop(child);
}
