//! Values that are text in JSON and numbers in protobuf: times, durations, quantities, base64.
//!
//! Formatting and parsing are next to each other, so `ser` parses what `de` formats. Formatting uses a buffer on the
//! stack: decoding an object must not allocate for a timestamp.

pub(crate) mod duration;
pub(crate) mod quantity;
pub(crate) mod time;

/// Text of bounded length on the stack.
#[derive(Debug)]
pub(crate) struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Text<N> {
    fn new() -> Self {
        Self { bytes: [0; N], len: 0 }
    }

    /// Appends one ASCII character. Drops it if the buffer is full; `N` is chosen so that this never happens.
    #[inline]
    fn push(&mut self, ascii: u8) {
        debug_assert!(ascii.is_ascii() && self.len < N);
        if let Some(slot) = self.bytes.get_mut(self.len) {
            *slot = ascii;
            self.len += 1;
        }
    }

    /// Appends text.
    fn push_str(&mut self, text: &str) {
        debug_assert!(self.len + text.len() <= N);
        if let Some(slot) = self.bytes.get_mut(self.len..self.len + text.len()) {
            slot.copy_from_slice(text.as_bytes());
            self.len += text.len();
        }
    }

    /// Appends a number below 100 with two digits.
    #[inline]
    fn push_two(&mut self, value: u64) {
        self.push(b'0' + (value / 10 % 10) as u8);
        self.push(b'0' + (value % 10) as u8);
    }

    /// Appends a number, padded with zeros to `width` digits.
    fn push_padded(&mut self, mut value: u64, width: usize) {
        let mut digits = [b'0'; 20];
        let mut at = digits.len();
        while value > 0 || digits.len() - at < width {
            at -= 1;
            digits[at] = b'0' + (value % 10) as u8;
            value /= 10;
        }
        for &digit in &digits[at..] {
            self.push(digit);
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        // Only whole strings are pushed, so this is always UTF-8.
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}
