/** Display names of deployments and images. Pure. */
import type { Deployment } from './generated/api.ts'

/**
 * Shortens an image that is identified by a digest to the beginning of the digest; returns any other name unchanged.
 */
export function imageName(image: string): string {
  const digest = /^(?:oci:app-.*:sha256-|.*@sha256:)([0-9a-f]{12})[0-9a-f]{52}$/.exec(image)?.[1]
  return digest === undefined ? image : `sha256:${digest}`
}

/** The image name without the prefixes of Docker Hub. */
export const shortImage = (image: string): string =>
  imageName(image).replace(/^docker\.io\/(?:library\/)?/, '') || 'Not built yet'

type Named = Pick<
  Deployment,
  'git_commit_message' | 'git_commit_hash' | 'build_id' | 'image' | 'status' | 'author' | 'trigger_source'
>

/**
 * Names what a deployment runs: the first line of the commit message, else the commit, the uploaded source or the
 * image.
 */
export function versionOf({ git_commit_message, git_commit_hash, build_id, image, status }: Named): string {
  const subject = git_commit_message.split('\n')[0]
  if (subject) return subject
  if (git_commit_hash) return `Commit ${git_commit_hash.slice(0, 10)}`
  if (build_id) return image === '' && status !== 'failed' ? 'Source being built' : 'Uploaded source'
  return shortImage(image)
}

const triggers: Readonly<Record<string, string>> = { push: 'by push', rollback: 'rolled back', api: 'by token' }

/** Returns who caused a deployment, and how: `Ada Lovelace, by push`. */
export const authorOf = ({ author, trigger_source }: Pick<Named, 'author' | 'trigger_source'>): string =>
  [author || 'unknown', triggers[trigger_source]].filter(Boolean).join(', ')
