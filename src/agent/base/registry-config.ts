import { type Static, Type } from 'typebox'

/** What the operator says about one registry. */
export const RegistryConfig = Type.Object({
  /** `host[:port]` as it stands in references. */
  host: Type.String({ minLength: 1 }),
  plainHttp: Type.Optional(Type.Boolean()),
  username: Type.Optional(Type.String()),
  password: Type.Optional(Type.String()),
  /** Ids of the projects whose images are fetched with the credentials, besides built ones; `*`: every project. */
  projects: Type.Optional(Type.Array(Type.String())),
})
export type RegistryConfig = Static<typeof RegistryConfig>
