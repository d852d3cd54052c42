use std::io::Write as _;

use flate2::{Compression, write::ZlibEncoder};

use super::*;

fn deflate(content: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let byte = u8::try_from(value & 0x7f).unwrap();
        value >>= 7;
        bytes.push(if value == 0 { byte } else { byte | 0x80 });
        if value == 0 {
            return bytes;
        }
    }
}

fn object(kind: u8, size: usize, base: &[u8], content: &[u8]) -> Vec<u8> {
    let low = u8::try_from(size & 0x0f).unwrap();
    let rest = u64::try_from(size >> 4).unwrap();
    let mut bytes = vec![kind << 4 | low | if rest == 0 { 0 } else { 0x80 }];
    if rest > 0 {
        bytes.extend(varint(rest));
    }
    bytes.extend(base);
    bytes.extend(deflate(content));
    bytes
}

fn pack(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = b"PACK\0\0\0\x02".to_vec();
    bytes.extend(u32::try_from(objects.len()).unwrap().to_be_bytes());
    bytes.extend(objects.concat());
    bytes.extend([0; 20]);
    bytes
}

fn delta(result: u64) -> Vec<u8> {
    delta_of(10, result)
}

fn delta_of(base: u64, result: u64) -> Vec<u8> {
    let content = [varint(base), varint(result), vec![0x01, b'x']].concat();
    object(7, content.len(), &[9; 20], &content)
}

fn inspect(bytes: &[u8], step: usize, limits: &Limits) -> Result<bool, Refused> {
    let mut inspector = Inspector::new(limits);
    for piece in bytes.chunks(step) {
        inspector.feed(piece)?;
    }
    Ok(inspector.is_complete())
}

fn limit_of(result: Result<bool, Refused>) -> &'static str {
    match result {
        Err(Refused::Exceeds(GitError::LimitExceeded { limit, .. })) => limit,
        other => panic!("a limit, not {other:?}"),
    }
}

fn sample() -> Vec<u8> {
    let large: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    let offset = object(6, 3, &[0x81, 0x02], &[1, 1, 0]);
    pack(&[object(3, 0, &[], b""), object(3, large.len(), &[], &large), offset, delta(1_000)])
}

#[test]
fn a_pack_is_followed_to_its_end_in_pieces_of_any_size() {
    let bytes = sample();
    for step in [1, 7, 4_096, bytes.len()] {
        assert!(inspect(&bytes, step, &Limits::default()).unwrap(), "{step}");
    }
    assert!(inspect(&pack(&[]), 5, &Limits::default()).unwrap());
}

#[test]
fn a_pack_that_is_cut_is_not_complete() {
    let bytes = sample();
    for end in (0..bytes.len()).step_by(997) {
        assert!(!inspect(&bytes[..end], 4_096, &Limits::default()).unwrap(), "{end}");
    }
}

#[test]
fn what_unfolds_to_too_much_is_refused() {
    let limits = Limits { delta_bytes: 1_000, unpacked_bytes: 10_000, objects: 20, ..Limits::default() };
    assert!(inspect(&pack(&[delta(1_000)]), 1, &limits).unwrap());
    assert_eq!(limit_of(inspect(&pack(&[delta(1_001)]), 1, &limits)), "delta_bytes");
    assert_eq!(limit_of(inspect(&pack(&[delta_of(1_001, 1)]), 1, &limits)), "delta_bytes");
    assert_eq!(limit_of(inspect(&pack(&vec![delta(1_000); 11]), 1, &limits)), "unpacked_bytes");
    assert_eq!(limit_of(inspect(&pack(&[object(3, 10_001, &[], b"")]), 1, &limits)), "unpacked_bytes");
    assert_eq!(limit_of(inspect(&pack(&vec![delta(1); 21]), 1, &limits)), "objects");
}

#[test]
fn what_is_no_pack_is_refused_without_a_panic() {
    let damaged = [
        b"PACK\0\0\0\x02\0\0\0\x01\x05".to_vec(),
        pack(&[object(3, 3, &[], b"four")]),
        pack(&[object(3, 5, &[], b"four")]),
        pack(&[object(7, 1, &[0; 20], &[0x80])]),
        [pack(&[]), vec![0]].concat(),
        [b"PACK\0\0\0\x02\0\0\0\x01".to_vec(), vec![0xff; 64]].concat(),
    ];
    for bytes in damaged {
        assert!(matches!(inspect(&bytes, 3, &Limits::default()), Err(Refused::Damaged(_))), "{bytes:?}");
    }
    // Whatever one byte is changed to, the answer is a value.
    let bytes = sample();
    for position in 0..200 {
        for value in [0, 0x7f, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[position] = value;
            let _ = inspect(&changed, 4_096, &Limits::default());
        }
    }
}
