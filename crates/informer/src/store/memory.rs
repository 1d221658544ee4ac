//! How a store holds its objects: packed or as they came.

/// How a store holds its objects.
///
/// Nothing else differs: readers see the same bytes. Packed pods take a quarter to a third of the memory, and unpacking one costs
/// about a microsecond when more than its head is read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Memory {
    /// Compressed, with a dictionary trained on the kind. Small stores and objects that do not shrink stay plain.
    Packed(Packing),
    /// As they came.
    Plain,
}

/// When and how objects are packed. The defaults suit every kind that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Packing {
    /// Objects that hold fewer bytes than this in all are left plain: a dictionary and what goes with it takes 0.3 MB.
    /// Default: 512 KiB.
    pub bytes_min: usize,
    /// A dictionary is trained as soon as this many bytes have come; so many are held plain meanwhile. Default: 1 MiB.
    pub sample_bytes: usize,
    /// The size of a dictionary. Default: 16 KiB.
    pub dictionary_bytes: usize,
    /// How many objects are packed, at least, before another dictionary is thought of. Default: 2,000.
    pub drift_objects: u64,
    /// By how many percent objects must pack worse than those that the dictionary was trained on before another is
    /// trained. Default: 25.
    pub drift_percent: u64,
}

impl Packing {
    /// Packs from the first object on, and trains another dictionary after every few objects, useful or not: so that tests
    /// with a handful of objects exercise everything that packing does.
    #[doc(hidden)]
    pub fn eager() -> Self {
        Self { bytes_min: 0, sample_bytes: 1, dictionary_bytes: 1 << 10, drift_objects: 3, drift_percent: 0 }
    }

    /// Whether another dictionary is trained whether it is of use or not.
    pub(super) fn is_eager(&self) -> bool {
        self.drift_percent == 0
    }
}

impl Default for Packing {
    fn default() -> Self {
        Self {
            bytes_min: 512 << 10,
            sample_bytes: 1 << 20,
            dictionary_bytes: 16 << 10,
            drift_objects: 2000,
            drift_percent: 25,
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::Packed(Packing::default())
    }
}

impl From<Packing> for Memory {
    fn from(packing: Packing) -> Self {
        Self::Packed(packing)
    }
}
