use protozero::{Message, StaticBuffered};

fn main() {
    let mut memory = [0; 16];
    let mut buffer = StaticBuffered::<Message>::new(&mut memory);
    buffer.message().append_uint32::<1>(7);
    assert_eq!(memory[0], 8);
    buffer.finish().unwrap();
}
