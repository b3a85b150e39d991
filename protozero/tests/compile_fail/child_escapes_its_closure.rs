use protozero::{HeapBuffered, Message};

/// Stands for a generated method for a nested message, and has its signature.
fn child<R>(message: &mut Message<'_>, write: impl FnOnce(&mut Message<'_>) -> R) -> R {
    write(&mut message.begin_nested::<1>())
}

fn main() {
    let mut buffer = HeapBuffered::<Message>::new();
    let mut message = buffer.message();
    let mut kept = None;
    child(&mut message, |nested| kept = Some(nested));
    kept.unwrap().append_uint32::<2>(7);
}
