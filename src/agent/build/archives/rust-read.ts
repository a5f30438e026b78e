/** Parses the manifest of a Rust release. Runs in a worker thread, because the manifest has up to 8 MiB. */
import { parse } from 'smol-toml'
import { type Static, Type } from 'typebox'
import { Value } from 'typebox/value'

const target = 'x86_64-unknown-linux-gnu'
/** The components that rustup installs with `--profile minimal`. */
const components = ['rustc', 'cargo', 'rust-std'] as const
/** https://forge.rust-lang.org/infra/channel-layout.html */
const Manifest = Type.Object({
  pkg: Type.Record(
    Type.String(),
    Type.Object({
      target: Type.Record(
        Type.String(),
        Type.Object({ xz_url: Type.Optional(Type.String()), xz_hash: Type.Optional(Type.String()) }),
      ),
    }),
  ),
})
/** The archives of the toolchain's components, in the order of `components`. */
export const Components = Type.Array(Type.Object({ url: Type.String(), checksum: Type.String() }), { maxItems: 3 })

/**
 * Returns the archives of the components for the builder's platform.
 * @throws Error if the manifest does not match the schema
 */
export function readManifest(text: string): Static<typeof Components> {
  const { pkg } = Value.Parse(Manifest, parse(text))
  return components.map(component => {
    const { xz_url: url = '', xz_hash: checksum = '' } = pkg[component]?.target[target] ?? {}
    return { url, checksum }
  })
}
