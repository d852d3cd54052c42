//! The part that every persisted kind shares: `apiVersion`, `kind`, and `kube::Resource`.

/// Implements `kube::Resource` and `Serialize` for a root type.
///
/// Written by hand since `secure` sits beside `spec`, where kube's derive has no place for it. The fields in
/// `always` are written as they are, those in `unless_zero` only when they say something.
macro_rules! root_object {
    ($name:ident { group: $group:expr, version: $version:expr, plural: $plural:expr,
      always: [$($always:ident),*], unless_zero: [$($optional:ident),*] }) => {
        impl kube::Resource for $name {
            type DynamicType = ();
            type Scope = k8s_openapi::NamespaceResourceScope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                stringify!($name).into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("apiVersion", concat_version!($group, $version))?;
                map.serialize_entry("kind", stringify!($name))?;
                map.serialize_entry("metadata", &self.metadata)?;
                $(map.serialize_entry(stringify!($always), &self.$always)?;)*
                $(if !$crate::wire::is_zero(&self.$optional) {
                    map.serialize_entry(stringify!($optional), &self.$optional)?;
                })*
                map.end()
            }
        }
    };
}

/// `group/version` as the wire's `apiVersion`.
macro_rules! concat_version {
    ($group:expr, $version:expr) => {
        &format_args!("{}/{}", $group, $version)
    };
}
