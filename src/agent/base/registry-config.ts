import { type Static, Type } from 'typebox'

/** The operator's settings for one registry. */
export const RegistryConfig = Type.Object({
  /** `host[:port]`, as in image references. */
  host: Type.String({ minLength: 1 }),
  plainHttp: Type.Optional(Type.Boolean()),
  username: Type.Optional(Type.String()),
  password: Type.Optional(Type.String()),
  /**
   * Ids of projects whose images are pulled with these credentials; `*`: all projects. Images built by Mote always are.
   */
  projects: Type.Optional(Type.Array(Type.String())),
})
export type RegistryConfig = Static<typeof RegistryConfig>
