import { createStore } from '../api/store.ts'

export type Theme = 'system' | 'light' | 'dark'
const key = 'mote.theme'

const isTheme = (text: string | null): text is Theme => text === 'light' || text === 'dark' || text === 'system'
const stored = localStorage.getItem(key)
export const theme = createStore<Theme>(isTheme(stored) ? stored : 'system')

/** Applies the chosen theme. The system's theme needs no attribute, because of `color-scheme: light dark`. */
export function applyTheme(): void {
  const chosen = theme.get()
  if (chosen === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = chosen
}

export function chooseTheme(next: Theme): void {
  localStorage.setItem(key, next)
  theme.set(next)
  applyTheme()
}
