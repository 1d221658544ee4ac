//! The rules of the store and of the two queues: one test per rule, named after it, and comparisons with models.

mod delta_fifo;
mod delta_fifo_model;
mod fifo;
mod fifo_model;
mod index;
mod indexer;
mod packing;
mod replace;
mod store;
mod store_model;
mod support;
mod threads;
mod wait;
