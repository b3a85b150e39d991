use protozero::FrameReader;

fn main() {
    let mut reader = FrameReader::new();
    let first = reader.append(&[0x0a, 1, 7]).next();
    let second = reader.append(&[0x0a, 1, 8]).next();
    assert_ne!(first, second);
}
