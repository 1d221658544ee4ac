//! Shared code of the fuzz targets.

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Draws what a property test draws, seeded by the input. (proptest halves the bytes of `PassThrough` with every nested strategy, so
/// the input cannot be what is drawn.)
pub fn runner(input: &[u8]) -> TestRunner {
    let mut seed = [0_u8; 32];
    for (at, byte) in input.iter().enumerate() {
        seed[at % 32] = seed[at % 32].rotate_left(1) ^ byte;
    }
    TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &seed))
}
