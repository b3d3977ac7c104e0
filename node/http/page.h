// The page that a person sees at "/": shows /status live, with nothing loaded from anywhere else.
#ifndef NODE_HTTP_PAGE_H
#define NODE_HTTP_PAGE_H

extern const char node_page_html[];

#endif
