//! Serves bare repositories of a folder over Git's smart HTTP, by running `git http-backend`.
