//! A dictionary: what objects of one kind have in common, so that packing need only say what is particular to each.
//!
//! An object that was packed with a dictionary is unpacked with the same one, so every packed object holds its own. It
//! never changes once it is trained.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use kube_wire::{Encoding, RawObject, TypeMeta};
use zstd::zstd_safe::{self, CDict, DDict};

use super::contexts::Contexts;

/// Of levels and dictionaries that were tried: see docs/design/packing.md.
const LEVEL: i32 = 1;
/// Training time grows with what is trained on, its use does not: 250 pods give what 1,000 give.
const TRAINING_BYTES_MAX: usize = 1 << 20;
/// The beginning of a large object says as much as the whole.
const SAMPLE_BYTES_MAX: usize = 32 << 10;
/// How many samples a dictionary is tried on.
const TRIED_MAX: usize = 256;
/// What a trained dictionary begins with; four bytes of a number that nobody needs follow.
const MAGIC: [u8; 4] = [0x37, 0xa4, 0x30, 0xec];

/// Packs and unpacks objects of one kind in one encoding.
pub(in crate::store) struct Dictionary {
    type_meta: TypeMeta,
    encoding: Encoding,
    pack: CDict<'static>,
    unpack: DDict<'static>,
    contexts: Arc<Contexts>,
    /// How many bytes a thousand became when it was trained, or when that was last found to be as good as it gets.
    expected: AtomicU64,
    /// What was packed since.
    objects: AtomicU64,
    plain_bytes: AtomicU64,
    packed_bytes: AtomicU64,
}

impl Dictionary {
    /// Trains a dictionary on objects of one kind; `None` if there are none.
    pub(super) fn train(samples: &[RawObject], bytes_max: usize, contexts: &Arc<Contexts>) -> Option<Self> {
        let first = samples.first()?;
        let chosen = choose(samples);
        let mut content = zstd::dict::from_samples(&chosen, bytes_max).unwrap_or_default();
        if content.starts_with(&MAGIC) && content.len() > 8 {
            // Without a number, no frame has to name it: four bytes less an object.
            content[4..8].fill(0);
        } else {
            // Too few or too small to train on: then they are the dictionary themselves. (The zero keeps it from being
            // taken for a trained one.)
            content = chosen.iter().copied().flatten().copied().take(bytes_max).collect();
            content.insert(0, 0);
        }
        let mut dictionary = Self {
            type_meta: first.type_meta().clone(),
            encoding: first.encoding(),
            pack: CDict::try_create(&content, LEVEL)?,
            unpack: DDict::try_create(&content)?,
            contexts: contexts.clone(),
            expected: AtomicU64::default(),
            objects: AtomicU64::default(),
            plain_bytes: AtomicU64::default(),
            packed_bytes: AtomicU64::default(),
        };
        dictionary.expected = AtomicU64::new(dictionary.rate_of(samples));
        Some(dictionary)
    }

    pub(in crate::store) fn type_meta(&self) -> &TypeMeta {
        &self.type_meta
    }

    pub(in crate::store) fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Packs bytes, and hands on what they became.
    pub(super) fn pack<T>(&self, plain: &[u8], take: impl FnOnce(&[u8]) -> T) -> Option<T> {
        self.compress(plain, |packed| {
            self.objects.fetch_add(1, Ordering::Relaxed);
            self.plain_bytes.fetch_add(plain.len() as u64, Ordering::Relaxed);
            self.packed_bytes.fetch_add(packed.len() as u64, Ordering::Relaxed);
            take(packed)
        })
    }

    /// How many bytes a thousand of these would become.
    pub(super) fn rate_of(&self, samples: &[RawObject]) -> u64 {
        let (mut plain_bytes, mut packed_bytes) = (0, 0);
        for sample in samples.iter().step_by(samples.len().div_ceil(TRIED_MAX).max(1)) {
            plain_bytes += sample.bytes().len() as u64;
            packed_bytes += self.compress(sample.bytes(), |packed| packed.len() as u64).unwrap_or_default();
        }
        packed_bytes * 1000 / plain_bytes.max(1)
    }

    fn compress<T>(&self, plain: &[u8], take: impl FnOnce(&[u8]) -> T) -> Option<T> {
        self.contexts.pack(|room| {
            room.buffer.reserve(zstd_safe::compress_bound(plain.len()));
            // Cannot fail with a buffer of this size; if it did, the object would stay plain.
            room.context.compress_using_cdict(&mut room.buffer, plain, &self.pack).ok()?;
            Some(take(&room.buffer))
        })
    }

    /// Unpacks into a buffer that is used again, for as long as `read` takes.
    pub(in crate::store) fn unpack<T>(&self, packed: &[u8], read: impl FnOnce(&[u8]) -> T) -> T {
        self.contexts.unpack(|room| {
            room.buffer.reserve(plain_len(packed));
            let unpacked = room.context.decompress_using_ddict(&mut room.buffer, packed, &self.unpack);
            unpacked.expect(UNPACKS);
            read(&room.buffer)
        })
    }

    /// Unpacks an object for somebody to keep.
    pub(in crate::store) fn restore(&self, packed: &[u8]) -> RawObject {
        let mut plain = Vec::with_capacity(plain_len(packed));
        self.contexts.unpack(|room| {
            room.context.decompress_using_ddict(&mut plain, packed, &self.unpack).expect(UNPACKS);
        });
        RawObject::restore(Bytes::from(plain), self.encoding, self.type_meta.clone()).expect(UNPACKS)
    }

    /// How many objects were packed since it was trained or settled.
    pub(super) fn objects(&self) -> u64 {
        self.objects.load(Ordering::Relaxed)
    }

    /// By how many percent objects pack worse than is expected.
    pub(super) fn drift_percent(&self) -> u64 {
        let expected = self.expected.load(Ordering::Relaxed).max(1);
        (self.rate() * 100 / expected).saturating_sub(100)
    }

    /// How objects have packed of late is what is to be expected.
    pub(super) fn settle(&self) {
        if self.objects() == 0 {
            return;
        }
        self.expected.store(self.rate(), Ordering::Relaxed);
        for counted in [&self.objects, &self.plain_bytes, &self.packed_bytes] {
            counted.store(0, Ordering::Relaxed);
        }
    }

    /// How many bytes a thousand have become since it was trained or settled.
    fn rate(&self) -> u64 {
        let (plain, packed) = (&self.plain_bytes, &self.packed_bytes);
        packed.load(Ordering::Relaxed) * 1000 / plain.load(Ordering::Relaxed).max(1)
    }
}

/// The invariant behind every `expect` here: memory does not change by itself.
const UNPACKS: &str = "what a dictionary has packed, it unpacks";

/// How many bytes it will be.
pub(super) fn plain_len(packed: &[u8]) -> usize {
    let len = zstd_safe::get_frame_content_size(packed).ok().flatten();
    len.and_then(|len| usize::try_from(len).ok()).expect(UNPACKS)
}

/// Samples from all over the list, as far as there is time for them.
fn choose(samples: &[RawObject]) -> Vec<&[u8]> {
    let cut = |sample: &'_ RawObject| sample.bytes().len().min(SAMPLE_BYTES_MAX);
    let total = samples.iter().map(cut).sum::<usize>();
    let spread = samples.iter().step_by(total.div_ceil(TRAINING_BYTES_MAX).max(1));
    spread.map(|sample| &sample.bytes()[..cut(sample)]).collect()
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dictionary")
            .field("type_meta", &self.type_meta)
            .field("encoding", &self.encoding)
            .field("rate", &self.rate())
            .finish_non_exhaustive()
    }
}
