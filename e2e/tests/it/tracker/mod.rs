//! The commit tracker beside a real kustomize-controller.

mod stand_in;
mod standing;
