/** VitePress's default theme, with a menu that switches between versions of the documents. */
import DefaultTheme from 'vitepress/theme'
import { h } from 'vue'
import './style.css'
import { Versions } from './versions.ts'

export default {
  extends: DefaultTheme,
  Layout: () =>
    h(DefaultTheme.Layout, null, {
      'nav-bar-content-after': () => h(Versions),
      'nav-screen-content-after': () => h(Versions),
    }),
}
