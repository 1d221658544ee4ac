//! A dictionary: what objects of one kind have in common, so that a packed object holds only the differences.
//!
//! An object is unpacked with the dictionary it was packed with, so every packed object holds a reference to its own. A
//! dictionary never changes after training.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use kube_wire::{Encoding, RawObject, TypeMeta};
use zstd::zstd_safe::{self, CDict, DCtx, DDict};

use super::contexts::Contexts;
use super::skeleton::{Cuts, Names, put_together, take_apart};

/// The best of the levels and dictionaries that were tried: see docs/design/packing.md.
const LEVEL: i32 = 1;
/// Training time grows with the training data, its benefit does not: 100 pods are as good as 1,000.
const TRAINING_BYTES_MAX: usize = 512 << 10;
/// The beginning of a large object is as representative as the whole.
const SAMPLE_BYTES_MAX: usize = 32 << 10;
/// With less training data per byte of the dictionary, training gains nothing. Even then it costs megabytes of memory and
/// some milliseconds.
const TRAINING_RATIO_MIN: usize = 8;
/// How many samples a dictionary is evaluated on.
const TRIED_MAX: usize = 256;
/// The magic number of a trained dictionary. A four-byte id follows, which is not used.
const MAGIC: [u8; 4] = [0x37, 0xa4, 0x30, 0xec];

/// Packs and unpacks objects of one kind in one encoding.
pub(crate) struct Dictionary {
    type_meta: TypeMeta,
    encoding: Encoding,
    pack: CDict<'static>,
    unpack: DDict<'static>,
    contexts: Arc<Contexts>,
    /// Packed bytes per 1,000 uncompressed bytes, at training or when last accepted as the optimum.
    expected: AtomicU64,
    /// Counters since then.
    objects: AtomicU64,
    uncompressed_bytes: AtomicU64,
    packed_bytes: AtomicU64,
}

impl Dictionary {
    /// Trains a dictionary on objects of one kind; `None` without samples.
    pub(super) fn train(samples: &[RawObject], bytes_max: usize, contexts: &Arc<Contexts>) -> Option<Self> {
        let first = samples.first()?;
        let chosen = choose(samples);
        let worthwhile = chosen.iter().map(Vec::len).sum::<usize>() >= TRAINING_RATIO_MIN * bytes_max;
        let trained = worthwhile.then(|| zstd::dict::from_samples(&chosen, bytes_max).ok()).flatten();
        let mut content = trained.unwrap_or_default();
        if content.starts_with(&MAGIC) && content.len() > 8 {
            // Without an id, frames need not name it: this saves four bytes per object.
            content[4..8].fill(0);
        } else {
            // Too little data to train on: use the samples themselves as the dictionary. (The zero distinguishes it from a
            // trained one.)
            content = chosen.iter().flatten().copied().take(bytes_max).collect();
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
            uncompressed_bytes: AtomicU64::default(),
            packed_bytes: AtomicU64::default(),
        };
        dictionary.expected = AtomicU64::new(dictionary.rate_of(samples));
        Some(dictionary)
    }

    pub(crate) fn type_meta(&self) -> &TypeMeta {
        &self.type_meta
    }

    pub(crate) fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Packs an object, and calls `take` with the result, in a buffer that may be extended: the packed skeleton,
    /// then the bytes of its digits.
    pub(super) fn pack<T>(
        &self,
        object: &RawObject,
        take: impl FnOnce(&mut Vec<u8>, Cuts) -> T,
    ) -> Option<T> {
        self.compress(object, |packed, cuts| {
            self.objects.fetch_add(1, Ordering::Relaxed);
            self.uncompressed_bytes.fetch_add(object.bytes().len() as u64, Ordering::Relaxed);
            self.packed_bytes.fetch_add(packed.len() as u64, Ordering::Relaxed);
            take(packed, cuts)
        })
    }

    /// Packed bytes per 1,000 uncompressed bytes of these samples.
    pub(super) fn rate_of(&self, samples: &[RawObject]) -> u64 {
        let (mut uncompressed_bytes, mut packed_bytes) = (0, 0);
        for sample in samples.iter().step_by(samples.len().div_ceil(TRIED_MAX).max(1)) {
            uncompressed_bytes += sample.bytes().len() as u64;
            packed_bytes += self.compress(sample, |packed, _| packed.len() as u64).unwrap_or_default();
        }
        packed_bytes * 1000 / uncompressed_bytes.max(1)
    }

    fn compress<T>(&self, object: &RawObject, take: impl FnOnce(&mut Vec<u8>, Cuts) -> T) -> Option<T> {
        self.contexts.pack(|scratch| {
            let cuts =
                take_apart(object.bytes(), names_of(object), &mut scratch.skeleton, &mut scratch.digits);
            scratch.buffer.reserve(zstd_safe::compress_bound(scratch.skeleton.len()));
            // Cannot fail with a buffer of this size; if it did, the object would stay uncompressed.
            scratch.context.compress_using_cdict(&mut scratch.buffer, &scratch.skeleton, &self.pack).ok()?;
            scratch.buffer.extend_from_slice(&scratch.digits);
            Some(take(&mut scratch.buffer, cuts))
        })
    }

    /// Unpacks into a reused buffer for the duration of `read`.
    pub(super) fn unpack<T>(&self, parts: &Parts<'_>, read: impl FnOnce(&[u8]) -> T) -> T {
        self.contexts.unpack(|scratch| {
            self.decompress(parts, &mut scratch.context, &mut scratch.skeleton, &mut scratch.buffer);
            read(&scratch.buffer)
        })
    }

    /// Unpacks an object into a new allocation.
    pub(super) fn restore(&self, parts: &Parts<'_>) -> RawObject {
        let mut uncompressed = Vec::new();
        self.contexts.unpack(|scratch| {
            self.decompress(parts, &mut scratch.context, &mut scratch.skeleton, &mut uncompressed);
        });
        RawObject::restore(Bytes::from(uncompressed), self.encoding, self.type_meta.clone()).expect(UNPACKS)
    }

    fn decompress(
        &self,
        parts: &Parts<'_>,
        context: &mut DCtx<'_>,
        skeleton: &mut Vec<u8>,
        uncompressed: &mut Vec<u8>,
    ) {
        let (packed, digits) = parts.split();
        skeleton.reserve(skeleton_len(packed));
        context.decompress_using_ddict(skeleton, packed, &self.unpack).expect(UNPACKS);
        uncompressed.reserve_exact(parts.cuts.uncompressed_len(skeleton.len(), parts.names));
        put_together(skeleton, parts.names, digits, uncompressed).expect(UNPACKS);
    }

    /// How many objects were packed since training or `settle`.
    pub(super) fn objects(&self) -> u64 {
        self.objects.load(Ordering::Relaxed)
    }

    /// By how many percent objects pack worse than expected.
    pub(super) fn drift_percent(&self) -> u64 {
        let expected = self.expected.load(Ordering::Relaxed).max(1);
        (self.rate() * 100 / expected).saturating_sub(100)
    }

    /// Accepts the recent packing rate as the expected one.
    pub(super) fn settle(&self) {
        if self.objects() == 0 {
            return;
        }
        self.expected.store(self.rate(), Ordering::Relaxed);
        for counted in [&self.objects, &self.uncompressed_bytes, &self.packed_bytes] {
            counted.store(0, Ordering::Relaxed);
        }
    }

    /// Packed bytes per 1,000 uncompressed bytes since training or `settle`.
    fn rate(&self) -> u64 {
        let (uncompressed, packed) = (&self.uncompressed_bytes, &self.packed_bytes);
        packed.load(Ordering::Relaxed) * 1000 / uncompressed.load(Ordering::Relaxed).max(1)
    }
}

/// The invariant behind every `expect` here: memory does not change by itself.
const UNPACKS: &str = "a dictionary unpacks what it has packed";

/// The parts of a packed object.
pub(super) struct Parts<'a> {
    /// The packed skeleton, then the bytes of its digits.
    pub(super) bytes: &'a [u8],
    pub(super) names: Names<'a>,
    pub(super) cuts: Cuts,
}

impl<'a> Parts<'a> {
    /// The unpacked size of the object.
    pub(super) fn uncompressed_len(&self) -> usize {
        self.cuts.uncompressed_len(skeleton_len(self.split().0), self.names)
    }

    fn split(&self) -> (&'a [u8], &'a [u8]) {
        let digits = usize::from(self.cuts.digit_bytes);
        self.bytes.split_at(self.bytes.len().checked_sub(digits).expect(UNPACKS))
    }
}

fn skeleton_len(packed: &[u8]) -> usize {
    let len = zstd_safe::get_frame_content_size(packed).ok().flatten();
    len.and_then(|len| usize::try_from(len).ok()).expect(UNPACKS)
}

fn names_of(object: &RawObject) -> Names<'_> {
    let head = object.head();
    [head.namespace(), head.name(), head.uid(), head.resource_version()].map(str::as_bytes)
}

/// Skeletons sampled from the whole list, within the training limit.
fn choose(samples: &[RawObject]) -> Vec<Vec<u8>> {
    let cut = |sample: &'_ RawObject| sample.bytes().len().min(SAMPLE_BYTES_MAX);
    let total = samples.iter().map(cut).sum::<usize>();
    let spread = samples.iter().step_by(total.div_ceil(TRAINING_BYTES_MAX).max(1));
    let skeleton = |sample: &RawObject| {
        let mut skeleton = Vec::new();
        take_apart(sample.bytes(), names_of(sample), &mut skeleton, &mut Vec::new());
        skeleton.truncate(SAMPLE_BYTES_MAX);
        skeleton
    };
    spread.map(skeleton).collect()
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
