use super::*;

/// Golden frames, with their lengths: what goes over a socket between programs of Perfetto.
fn golden() -> Vec<(&'static str, Frame<'static>)> {
    let frame = |request_id, body| Frame { request_id, body };
    vec![
        (
            "12000000 1001 1A0E 0A0C 50726F6475636572506F7274",
            frame(
                1,
                Body::Bind {
                    service: "ProducerPort",
                },
            ),
        ),
        (
            "12000000 1002 2A0E 0801 1001 1A06 1A027273 2001 2000",
            frame(
                2,
                Body::Invoke {
                    service_id: 1,
                    method_id: 1,
                    args: b"\x1a\x02rs\x20\x01",
                    drops_reply: false,
                },
            ),
        ),
        (
            "10000000 1002 320C 0801 1000 1A06 0800 1001 1800",
            frame(
                2,
                Body::Reply {
                    reply: Some(&[8, 0, 16, 1, 24, 0]),
                    has_more: false,
                },
            ),
        ),
        (
            "0C000000 1003 2A08 0801 1005 1A00 2000",
            frame(
                3,
                Body::Invoke {
                    service_id: 1,
                    method_id: 5,
                    args: b"",
                    drops_reply: false,
                },
            ),
        ),
        (
            "0E000000 1003 320A 0801 1001 1A04 1A020804",
            frame(
                3,
                Body::Reply {
                    reply: Some(&[0x1a, 2, 8, 4]),
                    has_more: true,
                },
            ),
        ),
        (
            "14000000 1009 2A10 0801 1004 1A08 0A06 0800 1000 1801 2001",
            frame(
                9,
                Body::Invoke {
                    service_id: 1,
                    method_id: 4,
                    args: &[0x0a, 6, 8, 0, 16, 0, 24, 1],
                    drops_reply: true,
                },
            ),
        ),
    ]
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|it| *it != b' ').collect();
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

#[test]
fn golden_frames_are_encoded_and_decoded() {
    for (hex, frame) in golden() {
        let expected = bytes(hex);
        let mut stream = Vec::new();
        frame.append_to(&mut stream);
        assert_eq!(stream, expected, "{frame:?}");
        assert_eq!(Frame::decode(&expected[4..]).unwrap(), frame);
    }
}

#[test]
fn replies_of_a_failure_are_empty_and_present() {
    for body in [
        Body::Bound(None),
        Body::Reply {
            reply: None,
            has_more: false,
        },
    ] {
        let frame = Frame {
            request_id: 7,
            body,
        };
        let mut stream = Vec::new();
        frame.append_to(&mut stream);
        assert_eq!(stream.len(), 4 + 4, "{frame:?}");
        assert_eq!(Frame::decode(&stream[4..]).unwrap(), frame);
    }
}

#[test]
fn methods_without_name_or_number_are_left_out() {
    let bound = BoundService {
        service_id: 1,
        methods: vec![("A", 0), ("", 2), ("C", 3)],
    };
    let mut stream = Vec::new();
    Frame {
        request_id: 1,
        body: Body::Bound(Some(bound)),
    }
    .append_to(&mut stream);
    let Body::Bound(Some(bound)) = Frame::decode(&stream[4..]).unwrap().body else {
        panic!("not bound");
    };
    assert_eq!(bound.methods, [("C", 3)]);
    assert_eq!((bound.method("C"), bound.method("A")), (Some(3), None));
}

#[test]
fn a_frame_cut_at_any_byte_is_an_error_or_another_frame() {
    for (hex, frame) in golden() {
        let whole = bytes(hex);
        for len in 4..whole.len() {
            assert_ne!(Frame::decode(&whole[4..len]), Ok(frame.clone()), "{len}");
        }
    }
}
