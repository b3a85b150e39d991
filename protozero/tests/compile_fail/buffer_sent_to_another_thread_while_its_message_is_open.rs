use protozero::{HeapBuffered, Message};

/// Requires of its argument what `std::thread::spawn` requires.
fn send<T: Send + 'static>(value: T) {
    drop(value);
}

fn main() {
    let mut buffer = HeapBuffered::<Message>::new();
    send(HeapBuffered::<Message>::new());
    let mut message = buffer.message();
    send(buffer);
    message.append_uint32::<1>(7);
}
