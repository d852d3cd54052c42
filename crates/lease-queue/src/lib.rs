//! lease-queue
