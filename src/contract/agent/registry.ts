/** Messages with which a host requests registry credentials from the control plane, to pull or push an image. */
import { type Static, Type } from 'typebox'

/** A host's request for a registry credential: for the image of a VM, or for a base image or the result of a build. */
export const RegistryLoginRequest = Type.Object({
  /** Id of the VM or build that needs the image. */
  vmId: Type.String(),
  /**
   * For a build: a base image, or the image to push. Control planes of earlier releases ignore this field, and find no
   * VM with the id of the build.
   */
  image: Type.Optional(Type.String()),
})
export type RegistryLoginRequest = Static<typeof RegistryLoginRequest>

export const RegistryLogin = Type.Object({
  /** The only registry to which the host may send the credential. */
  host: Type.String(),
  username: Type.String(),
  password: Type.String(),
  /**
   * Set if the registry is the installation's own one, whose address may be private. Hosts of earlier releases ignore
   * this field.
   */
  own: Type.Optional(Type.Object({ plainHttp: Type.Boolean() })),
})
export type RegistryLogin = Static<typeof RegistryLogin>

/** Reply with the credential; null: the VM's project has none for the registry of the image. */
export const RegistryLoginAnswer = Type.Object({ login: Type.Union([RegistryLogin, Type.Null()]) })
export type RegistryLoginAnswer = Static<typeof RegistryLoginAnswer>
