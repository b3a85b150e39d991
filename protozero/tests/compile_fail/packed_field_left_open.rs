use protozero::{HeapBuffered, Message, types};

fn main() {
    let mut buffer = HeapBuffered::<Message>::new();
    let mut message = buffer.message();
    let mut samples = message.begin_packed::<types::Uint32, 1>();
    message.append_uint32::<2>(7);
    samples.push(8);
}
