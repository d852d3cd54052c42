//! Git's programs on a server.

/// Which of Git's programs answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Service {
    UploadPack,
    ReceivePack,
}

impl Service {
    /// The program's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::UploadPack => "git-upload-pack",
            Self::ReceivePack => "git-receive-pack",
        }
    }

    pub(crate) fn advertisement(self) -> &'static str {
        match self {
            Self::UploadPack => "application/x-git-upload-pack-advertisement",
            Self::ReceivePack => "application/x-git-receive-pack-advertisement",
        }
    }

    /// The content type of a request to it.
    pub(crate) fn request(self) -> &'static str {
        match self {
            Self::UploadPack => "application/x-git-upload-pack-request",
            Self::ReceivePack => "application/x-git-receive-pack-request",
        }
    }

    pub(crate) fn result(self) -> &'static str {
        match self {
            Self::UploadPack => "application/x-git-upload-pack-result",
            Self::ReceivePack => "application/x-git-receive-pack-result",
        }
    }
}
