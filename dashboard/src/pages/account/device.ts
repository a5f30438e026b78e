const systems = [
  [/iPhone|iPad/, 'iOS'],
  [/Android/, 'Android'],
  [/Windows/, 'Windows'],
  [/Mac OS X/, 'macOS'],
  [/Linux/, 'Linux'],
] as const
/** The order matters: a browser's user agent may contain the names of browsers that follow in this list. */
const browsers = [
  [/Edg\//, 'Edge'],
  [/Firefox\//, 'Firefox'],
  [/Chrome\//, 'Chrome'],
  [/Safari\//, 'Safari'],
] as const

/** Browser and system from a user agent, such as `Chrome on Linux`; for other clients the user agent itself. */
export function deviceOf(userAgent: string | null): string {
  if (!userAgent) return 'Unknown device'
  const system = systems.find(([pattern]) => pattern.test(userAgent))?.[1]
  const browser = browsers.find(([pattern]) => pattern.test(userAgent))?.[1]
  if (!browser) return userAgent.slice(0, 40)
  return system ? `${browser} on ${system}` : browser
}
