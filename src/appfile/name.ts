export const appFileName = 'mote.toml'
