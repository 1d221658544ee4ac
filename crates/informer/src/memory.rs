//! How a store holds its objects: packed or uncompressed.

use educe::Educe;

/// How a store holds its objects.
///
/// Readers see the same bytes in both modes. Packed pods take a quarter to a third of the memory. Reading more than the head of
/// a packed object takes about a microsecond to unpack it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Memory {
    /// Compressed, with a dictionary trained on the kind. Small stores and objects that do not shrink stay uncompressed.
    #[default]
    Packed,
    /// Compressed with these settings: see [`Packing`].
    #[doc(hidden)]
    Tuned(Packing),
    /// Uncompressed.
    Uncompressed,
}

/// When and how objects are packed. The defaults suit every kind that was tried.
#[derive(Clone, Debug, Educe, PartialEq, Eq)]
#[educe(Default)]
#[non_exhaustive]
pub struct Packing {
    /// Objects with fewer bytes than this in total stay uncompressed: a dictionary and its contexts take 0.3 MB. Default:
    /// 512 KiB.
    #[educe(Default(expression = 512 << 10))]
    pub bytes_min: usize,
    /// A dictionary is trained after this many bytes, which are held uncompressed until then. Default: 1 MiB.
    #[educe(Default(expression = 1 << 20))]
    pub sample_bytes: usize,
    /// The size of a dictionary. Default: 16 KiB.
    #[educe(Default(expression = 16 << 10))]
    pub dictionary_bytes: usize,
    /// How many objects are packed, at least, before a new dictionary is considered. Default: 2,000.
    #[educe(Default(expression = 2000))]
    pub drift_objects: u64,
    /// A new dictionary is trained when objects pack this many percent worse than the training objects did. Default: 25.
    #[educe(Default(expression = 25))]
    pub drift_percent: u64,
}

impl Packing {
    /// Packs from the first object on, and trains a new dictionary after every few objects, useful or not. For tests: a
    /// handful of objects exercises everything.
    #[doc(hidden)]
    pub fn eager() -> Self {
        Self { bytes_min: 0, sample_bytes: 1, dictionary_bytes: 1 << 10, drift_objects: 3, drift_percent: 0 }
    }

    /// Whether new dictionaries are trained even if they do not help.
    pub(crate) fn is_eager(&self) -> bool {
        self.drift_percent == 0
    }
}

impl From<Packing> for Memory {
    fn from(packing: Packing) -> Self {
        Self::Tuned(packing)
    }
}
