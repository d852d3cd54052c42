//! Collision attacks on SHA-1. An object's id is the hash of its header and its content, so the published colliding
//! documents are no colliding objects, and colliding objects were not published. What names objects is asked directly.

use std::ffi::{c_int, c_uchar};

/// The first 320 bytes of the first of two PDF files with one SHA-1: a common beginning, and the two blocks that collide.
/// <https://shattered.io>.
const SHATTERED: &str = "255044462d312e330a25e2e3cfd30a0a0a312030206f626a0a3c3c2f57696474\
    682032203020522f4865696768742033203020522f547970652034203020522f\
    537562747970652035203020522f46696c7465722036203020522f436f6c6f72\
    53706163652037203020522f4c656e6774682038203020522f42697473506572\
    436f6d706f6e656e7420383e3e0a73747265616d0affd8fffe00245348412d31\
    20697320646561642121212121852fec092339759c39b1a1c63c4c97e1fffe01\
    7346dc9166b67e118f029ab621b2560ff9ca67cca8c7f85ba84c79030c2b3de2\
    18f86db3a90901d5df45c14f26fedfb3dc38e96ac22fe7bd728f0e45bce046d2\
    3c570feb141398bb552ef5a0a82be331fea48037b8b5d71f0e332edf93ac3500\
    eb4ddc0decc1a864790c782c76215660dd309791d06bd0af3f98cda4bc4629b1";

const SHA1: c_int = 1;

#[expect(unsafe_code, reason = "libgit2's own hash function, which its bindings do not have")]
mod libgit2 {
    use std::ffi::{c_int, c_uchar, c_void};

    unsafe extern "C" {
        fn git_hash_buf(out: *mut c_uchar, data: *const c_void, length: usize, algorithm: c_int) -> c_int;
    }

    pub(super) fn hash(out: &mut [c_uchar; 20], data: &[u8], algorithm: c_int) -> c_int {
        // SAFETY: `out` is as long as a SHA-1, and `data` is read for its length alone.
        unsafe { git_hash_buf(out.as_mut_ptr(), data.as_ptr().cast(), data.len(), algorithm) }
    }
}

/// The hash that the indexer of packs, the object database and commits of ours are named with; none of an attack.
fn hash(data: &[u8]) -> Option<[c_uchar; 20]> {
    let mut out = [0; 20];
    (libgit2::hash(&mut out, data, SHA1) == 0).then_some(out)
}

#[test]
fn what_names_objects_refuses_a_collision_attack() {
    windlass_git::init_process().unwrap();
    assert_eq!(
        hash(b"blob 0\0").map(hex::encode).as_deref(),
        Some("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391")
    );
    let mut attack = hex::decode(SHATTERED).unwrap();
    assert_eq!(attack.len(), 320);
    assert_eq!(hash(&attack), None);
    // Another bit, and it is nobody's attack.
    *attack.last_mut().unwrap() ^= 1;
    assert!(hash(&attack).is_some());
    // As an object's content it is none either: the header comes first.
    let object = [format!("blob {}\0", attack.len()).as_bytes(), &hex::decode(SHATTERED).unwrap()].concat();
    assert!(hash(&object).is_some());
}
