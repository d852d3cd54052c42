//! What Kubernetes' API does to documents, without input or output: values and byte slices in, values and errors out.
//!
//! A document is read ([`json`], [`yaml`], [`protobuf`]) within [`bounds`], brought into the form of its kind
//! ([`metadata`], [`schema`], [`definition`]), merged ([`fields`], [`strategic`]), judged ([`names`], with
//! [`field_error::FieldError`]s), stored and served as text ([`document`]), chosen ([`selector`]) and shown
//! ([`table`]). Its errors name the reasons and fields that kube-apiserver's do.
//!
//! It refuses to know HTTP, storage, which kinds there are, and who asks.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests"))]

pub mod bounds;
pub mod cel;
pub mod definition;
pub mod document;
pub mod field_error;
pub mod fields;
pub mod json;
pub mod metadata;
pub mod names;
pub mod protobuf;
pub mod schema;
pub mod selector;
pub mod strategic;
pub mod table;
pub mod yaml;
