//! Shared code of the fuzz targets.

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// A runner of property tests that is seeded by the input. The input cannot replace the random data itself, because
/// proptest halves the bytes of `PassThrough` with every nested strategy.
pub fn runner(input: &[u8]) -> TestRunner {
    let mut seed = [0_u8; 32];
    for (at, byte) in input.iter().enumerate() {
        seed[at % 32] = seed[at % 32].rotate_left(1) ^ byte;
    }
    TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &seed))
}
