//! The macro by which a section's struct and its keys are declared at once.

/// Declares a section: a struct with a field for each key, the keys, and how the fields are read.
///
/// A field is `key: Type = Form, "default" { what is special }`, where the form ([`crate::forms`]) reads the text as that
/// type. Its documentation is the key's description.
macro_rules! section {
    (
        $(#[$meta:meta])*
        $section:literal => $name:ident {
            $(
                $(#[doc = $line:literal])+
                $key:ident: $type:ty = $form:ty, $default:literal $({ $($mark:ident: $value:expr),+ })?;
            )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        pub struct $name {
            $($(#[doc = $line])+ pub $key: $type,)+
        }

        impl $name {
            /// The keys of the section.
            pub(crate) const KEYS: &[$crate::key::Key] = &[$($crate::key::Key {
                section: $section,
                name: stringify!($key),
                description: &[$($line),+],
                form: <$form as $crate::forms::Form<$type>>::describe,
                default: $default,
                $($($mark: $value,)+)?
                ..$crate::key::Key::PLAIN
            }),+];

            /// The section, or nothing if a value is wrong: every error is told.
            pub(crate) fn read(
                values: &$crate::values::Merged,
                errors: &mut Vec<$crate::SettingError>,
            ) -> Option<Self> {
                // All are read before the first that is missing ends it.
                let mut keys = Self::KEYS.iter();
                $(let $key = keys.next().and_then(|key| values.read::<$form, $type>(key, errors));)+
                Some(Self { $($key: $key?),+ })
            }
        }
    };
}
pub(crate) use section;
