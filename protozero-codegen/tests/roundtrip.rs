//! Generated code, compiled: what its writers write, its decoders and prost read.

use protozero::HeapBuffered;

mod basic {
    include!("fixtures/basic/expected.rs");
}

use basic::{Tree, TreeDecoder};

#[test]
fn nested() {
    let mut buffer = HeapBuffered::<Tree>::new();
    {
        let mut tree = buffer.message();
        tree.set_name("root");
        tree.left(|left| {
            left.set_name("left");
        });
    }
    let bytes = buffer.to_vec();
    let tree = TreeDecoder::new(&bytes);
    assert_eq!(tree.name(), Ok(Some("root")));
    let left = tree.left().unwrap().unwrap();
    assert_eq!(left.name(), Ok(Some("left")));
}
