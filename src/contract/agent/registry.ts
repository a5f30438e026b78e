/** Registry credentials that a host requests from the control plane to pull or push an image. */
import { type Static, Type } from 'typebox'

/** A host's request for registry credentials: for the image of a VM, or for a build's base images and result. */
export const RegistryLoginRequest = Type.Object({
  /** Id of the VM or of the build. */
  vmId: Type.String(),
  /**
   * Only for a build: a base image, or the image to push. Control planes of earlier releases ignore this field, and
   * find no VM with the build's id.
   */
  image: Type.Optional(Type.String()),
})
export type RegistryLoginRequest = Static<typeof RegistryLoginRequest>

export const RegistryLogin = Type.Object({
  /** The only registry that the credential may be sent to. */
  host: Type.String(),
  username: Type.String(),
  password: Type.String(),
  /** Set for the installation's own registry, whose address may be private. Hosts of earlier releases ignore it. */
  own: Type.Optional(Type.Object({ plainHttp: Type.Boolean() })),
})
export type RegistryLogin = Static<typeof RegistryLogin>

/** Null: the project of the VM has no credential for the registry of the VM's image. */
export const RegistryLoginAnswer = Type.Object({ login: Type.Union([RegistryLogin, Type.Null()]) })
export type RegistryLoginAnswer = Static<typeof RegistryLoginAnswer>
