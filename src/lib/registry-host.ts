/** Other names of Docker Hub, which clients treat as equal. */
const dockerHub = /^(?:(?:index|registry-1|www)\.docker\.io|registry\.hub\.docker\.com)$/

/** Returns the one spelling of a registry (`host[:port]`) that credentials are stored under. */
export function registryHost(host: string): string {
  const lower = host.toLowerCase()
  return dockerHub.test(lower) ? 'docker.io' : lower
}

/** A registry as image references name it. Without a dot or a port it would be the first part of a path. */
export const registryHostPattern =
  '^(?:(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?\\.)+[a-zA-Z0-9-]+(?::\\d{1,5})?|localhost(?::\\d{1,5})?|[a-zA-Z0-9-]+:\\d{1,5}|\\[[0-9a-fA-F:]+\\](?::\\d{1,5})?)$'
