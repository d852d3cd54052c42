//! Flux on a real API server: real kustomize-controller, and a stand-in for source-controller that speaks its wire.
//!
//! [`FluxScene`] is a namespace in which Kustomizations are applied; [`Source`] is an object of one of Flux's four
//! kinds of sources whose status says what source-controller would say; [`GitRemote`] is the Git repository behind it,
//! and [`Artifacts`] serves what was packed from it. [`Tracker`] is the program that is looked at.

mod artifacts;
mod git;
mod kustomization;
mod scene;
mod source;
mod source_controller;
mod tracker;

pub use self::artifacts::{Artifact, Artifacts};
pub use self::git::{GitRemote, NewCommit};
pub use self::kustomization::{Kustomization, Observed};
pub use self::scene::FluxScene;
pub use self::source::{Kind, Published, Source};
pub use self::source_controller::SourceController;
pub use self::tracker::{TOLD, Told, Tracker};
