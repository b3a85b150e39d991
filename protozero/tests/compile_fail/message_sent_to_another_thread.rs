use protozero::{HeapBuffered, Message};

/// Requires of its argument what `std::thread::Scope::spawn` requires.
fn send<T: Send>(value: T) {
    drop(value);
}

fn main() {
    let mut buffer = HeapBuffered::<Message>::new();
    let mut message = buffer.message();
    send(|| message.append_uint32::<1>(7));
}
