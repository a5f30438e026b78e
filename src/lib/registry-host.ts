/** Hostnames of Docker Hub besides `docker.io`. Docker's clients treat them as the same registry. */
const dockerHub = /^(?:(?:index|registry-1|www)\.docker\.io|registry\.hub\.docker\.com)$/

/**
 * Returns the normalized name of a registry (`host[:port]`), under which its credentials are stored: in lower case, and
 * `docker.io` for all names of Docker Hub.
 */
export function registryHost(host: string): string {
  const lower = host.toLowerCase()
  return dockerHub.test(lower) ? 'docker.io' : lower
}

/**
 * Matches a registry in an image reference. The registry needs a dot, a port or the name `localhost`; without one, the
 * reference's first part belongs to the repository path.
 */
export const registryHostPattern =
  '^(?:(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?\\.)+[a-zA-Z0-9-]+(?::\\d{1,5})?|localhost(?::\\d{1,5})?|[a-zA-Z0-9-]+:\\d{1,5}|\\[[0-9a-fA-F:]+\\](?::\\d{1,5})?)$'
