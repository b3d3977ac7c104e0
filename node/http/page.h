// The page that a person sees at "/": shows /status live, with nothing loaded from anywhere else. page/, as
// strings.
#ifndef NODE_HTTP_PAGE_H
#define NODE_HTTP_PAGE_H

extern const char node_page_html[], node_page_css[], node_page_js[];

#endif
